"""Tests of what is written: pages, examples, pictures, the site."""
