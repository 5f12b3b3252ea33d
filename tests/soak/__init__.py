"""Many processes that do everything with one store at once, while some of them and the server are killed."""
