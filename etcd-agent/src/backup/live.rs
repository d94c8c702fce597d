//! The etcd that is backed up, by its address and the folder with certificates for it.
//!
//! Invariant: nothing is asked yet.

use std::path::Path;

use ::backup::etcd::{Etcd, Tls};

use super::failure::{Failure, read};

/// An etcd, with the certificates of a folder where it wants some.
pub(super) fn etcd_at(url: &str, tls: Option<&Path>) -> Result<Etcd, Failure> {
    let tls = match tls {
        None => None,
        Some(folder) => Some(Tls {
            ca: read(&folder.join("ca.crt"))?,
            certificate: read(&folder.join("tls.crt"))?,
            key: read(&folder.join("tls.key"))?,
        }),
    };
    Ok(Etcd::new(url, tls.as_ref())?)
}
