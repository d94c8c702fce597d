//! Laws of the address pools.
