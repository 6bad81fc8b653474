"""Which of equally close nodes wins (`placementStrategy`, `podPlacementStrategies`)."""
