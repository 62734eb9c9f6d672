"""Memory for robots that survives restarts.

Public are `model`, `service`, `config`, `errors`, `transforms`, `perception` and `replay`; `ros` and `cli`
are the two interfaces, and imports go one way, downwards from them. The generated `msg`, `srv` and `action`
of the installed package are found beside these sources, also when Python is started in the folder of the
sources.
"""

from pkgutil import extend_path

__all__ = ['__version__']

__path__ = extend_path(__path__, __name__)
__version__ = '0.1.0'
