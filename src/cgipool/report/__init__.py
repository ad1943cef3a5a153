"""The report of a store: tables, figures and one page, read from the store alone. No torch."""

from cgipool.report.write import Report, write_report

__all__ = ["Report", "write_report"]
