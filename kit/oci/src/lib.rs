//! Images without a container engine: layers, configurations and layouts of OCI.
//!
//! `image` says what is in one, `tar` writes its layers, `layout` puts it into a folder. Invariant: the same files make
//! the same bytes, on every machine and at any time.

pub mod image;
pub mod layout;
mod tar;
