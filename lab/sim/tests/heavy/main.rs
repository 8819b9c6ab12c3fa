//! Worlds drawn from seeds: minutes of work, so `./x test --all` runs it.

mod swarm;
