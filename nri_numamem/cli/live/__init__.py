"""What commands read of the running plugin and its host: ``status`` and ``simulate --now``."""
