"""Witnesses of a trace: reference samples, inputs with the outputs that the original module returned for them."""
