//! The list of certificates of a tenant cluster.
//!
//! Invariant: only [`super_admin`] is in `system:masters`.

use pki::{Signer, Want};

use crate::{Addresses, Settings, Validated};

/// Every certificate that is stored. Those that hold the ClusterIP (`apiserver`) are left out
/// while there are no addresses.
#[must_use]
pub fn wants(v: &Validated, settings: &Settings, addresses: Option<&Addresses>) -> Vec<Want> {
    let _ = (v, settings, addresses);
    Vec::new()
}

/// One hour in `system:masters`, to lay the objects that [`crate::desired::is_privileged`] names.
/// It is issued in memory and never stored.
#[must_use]
pub fn super_admin() -> Want {
    Want {
        name: "super-admin".to_owned(),
        signer: Signer::By("ca".to_owned()),
        common_name: "kubernetes-super-admin".to_owned(),
        organizations: vec!["system:masters".to_owned()],
        server: false,
        client: true,
        dns_names: Vec::new(),
        addresses: Vec::new(),
        lifetime_hours: 1,
    }
}
