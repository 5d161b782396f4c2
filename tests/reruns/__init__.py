"""Tests that run other tests again, in other modes and on other Pythons."""
