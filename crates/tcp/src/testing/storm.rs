//! A transfer through a network that does everything wrong, by seed.
