//! Why there is no client of the Kubernetes API.
//!
//! Invariant: every reason is one that somebody has to mend; an API that does not answer is none.

use crate::errors::{Class, Classify};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable configuration.
    #[error("no usable kubeconfig; check --kubeconfig or the pod's service account")]
    Kubeconfig(#[source] Box<kube::Error>),
    /// The configuration is read but cannot be used.
    #[error("could not set up the Kubernetes client")]
    Build(#[source] Box<kube::Error>),
    /// What the server is to be called is not a name.
    #[error("the server's TLS name is not usable; it is a DNS name or an address")]
    ServerName(#[source] rustls_pki_types::InvalidDnsNameError),
    /// A proxy is to be used.
    #[error("proxies are not supported; remove proxy-url from the kubeconfig, or HTTPS_PROXY")]
    Proxy,
}

impl Classify for Error {
    fn class(&self) -> Class {
        Class::Invalid
    }
}
