"""Candidates, constraints, sizing, ranking, rejections and explanations. Pure: the same facts and request give the same answer."""
