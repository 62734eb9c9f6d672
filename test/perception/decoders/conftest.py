"""Messages of ROS, where it is installed."""

import contextlib
import warnings

with warnings.catch_warnings(), contextlib.suppress(ImportError):
    # Imported by the first message anywhere; its parser imports what Python 3.11 calls deprecated.
    warnings.simplefilter('ignore', DeprecationWarning)
    import rosidl_generator_py  # noqa: F401
