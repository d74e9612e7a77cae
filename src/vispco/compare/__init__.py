"""Comparisons on equal terms: published methods (`methods`) and other people's searches (`searches`)."""
