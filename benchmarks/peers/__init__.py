"""Side by side with the peers: the same jobs, each done by every peer through its own public interface."""
