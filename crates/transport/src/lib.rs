//! Engines bound to a world: async sessions and streams.
