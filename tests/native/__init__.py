"""Tests of the native headers, through small drivers."""
