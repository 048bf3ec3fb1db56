"""The version of this package; pyproject.toml reads it from here."""

__public__ = ("__version__",)

__version__ = "0.1.0"
