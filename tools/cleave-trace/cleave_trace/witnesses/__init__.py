"""Witnesses of a trace: what the module itself answers at other sizes and to other values."""
