"""Batches of symmetric 3x3 matrices, packed as upper triangles: xx xy xz yy yz zz.

Only sums and products in a fixed order, so that a batch and a single matrix give the same bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DIAGONAL = (0, 3, 5)
"""Indices of the variances."""

_UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def determinant(packed: Array) -> Array:
    """Return the determinant of each, shape (n,)."""
    xx, xy, xz, yy, yz, zz = packed.T
    found: Array = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
    return found


def inverse(packed: Array) -> Array:
    """Return the inverse of each, shape (n, 6); they must be positive definite."""
    xx, xy, xz, yy, yz, zz = packed.T
    a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    scale = 1.0 / (xx * a + xy * b + xz * c)
    parts = (a, b, c, xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy)
    return np.stack([part * scale for part in parts], axis=1)


def times(packed: Array, vectors: Array) -> Array:
    """Return the product of each with its vector, shape (n, 3)."""
    xx, xy, xz, yy, yz, zz = packed.T
    x, y, z = vectors.T
    return np.stack([xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z], axis=1)


def mahalanobis(vectors: Array, covariances: Array) -> Array:
    """Return the squared Mahalanobis length of each vector, shape (n,)."""
    step = times(inverse(covariances), vectors)
    found: Array = vectors[:, 0] * step[:, 0] + vectors[:, 1] * step[:, 1] + vectors[:, 2] * step[:, 2]
    return found


def rotation_matrix(quaternions: Array) -> Array:
    """Return the matrices of unit quaternions x y z w, shape (n, 3, 3)."""
    x, y, z, w = quaternions.T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


def turned(matrices: Array, packed: Array) -> Array:
    """Return ``R C R^T`` of each.

    Parameters
    ----------
    matrices : ndarray, shape (n, 3, 3) or (1, 3, 3)
        Rotations.
    packed : ndarray, shape (n, 6)
        Symmetric matrices.
    """
    xx, xy, xz, yy, yz, zz = packed.T
    columns = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
    half = [
        [
            matrices[:, i, 0] * column[0] + matrices[:, i, 1] * column[1] + matrices[:, i, 2] * column[2]
            for column in columns
        ]
        for i in range(3)
    ]
    parts = [
        matrices[:, j, 0] * half[i][0] + matrices[:, j, 1] * half[i][1] + matrices[:, j, 2] * half[i][2]
        for i, j in _UPPER
    ]
    return np.stack(parts, axis=1)
