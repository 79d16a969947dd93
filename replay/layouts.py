"""Layouts: what an item of a replay table may hold."""

from replay import sequences, transitions

Layout = transitions.Layout | sequences.SequenceLayout
