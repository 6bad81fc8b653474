"""Requests that may be refused: new containers, their updates, and pods in pod scope."""
