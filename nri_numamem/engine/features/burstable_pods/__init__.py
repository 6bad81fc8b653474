"""Containers of Burstable pods whose memory request is their limit (`burstablePods`)."""
