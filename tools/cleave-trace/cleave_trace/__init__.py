"""Traces PyTorch models to TorchScript files that `cleave compile` reads."""
