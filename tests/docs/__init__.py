"""Tests of the documentation: pages, examples, pictures, the site."""
