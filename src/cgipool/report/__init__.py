"""Write the report of a result store: tables, figures and one HTML page. Does not import torch."""

from cgipool.report.write import Report, write_report

__all__ = ["Report", "write_report"]
