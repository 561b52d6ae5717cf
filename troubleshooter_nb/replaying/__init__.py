"""Recorded calls run again, each alone: in the network at hand, and in a script to send."""
