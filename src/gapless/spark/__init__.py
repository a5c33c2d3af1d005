"""Spark on both ends: sources, sinks, and the audit of journals, in PySpark alone."""
