"""Workloads: what is asked of a fleet, decided before a run begins. One file each; `mixed` is the default."""
