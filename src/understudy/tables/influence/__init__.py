"""Verification by influence: estimating equations, evaluated at the released estimate."""
