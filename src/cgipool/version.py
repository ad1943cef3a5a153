"""The version, in a file of its own so that it can be read without importing torch or installed metadata."""

__version__ = "0.1.0"
