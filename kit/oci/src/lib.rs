//! Images without a container engine: layers, configurations and layouts of OCI.
//!
//! `image` says what is in one, `tar` writes its layers, `layout` puts it into a cache that images share, `published`
//! into a layout of its own. Invariant: the same files make the same bytes, on every machine and at any time.

mod blobs;
pub mod image;
pub mod layout;
mod media;
pub mod published;
pub mod tar;
