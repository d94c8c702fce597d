//! Kubeconfig files of the lab's components and of its user.
//!
//! Invariant: they refer to certificate files, so `up` may issue new ones without a new text.

use super::Cluster;

impl Cluster {
    /// A kubeconfig for the client certificate `identity` of the lab's PKI.
    pub(super) fn kubeconfig(&self, identity: &str) -> String {
        let server = self.slot.api_url();
        let ca = self.pki_file("ca.crt");
        let certificate = self.pki_file(&format!("{identity}.crt"));
        let key = self.pki_file(&format!("{identity}.key"));
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: {server}
    certificate-authority: {ca:?}
users:
- name: {identity}
  user:
    client-certificate: {certificate:?}
    client-key: {key:?}
contexts:
- name: lab
  context:
    cluster: lab
    user: {identity}
current-context: lab
"
        )
    }
}
