//! A real management cluster on one machine: programs, images, hosts
