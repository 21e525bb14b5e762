"""Answers in the shapes that other programs read: flat rows, sheets, pages."""
