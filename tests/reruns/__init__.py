"""Tests that run other tests again: in other modes, on other Pythons."""
