"""What runs an agent: models that answer, tools they may call, and the turn loop between them."""
