//! Kubeconfigs of a kubelet, as text: as kubeadm and the kubelet write them, one value in a line.
//!
//! Invariant: whatever is not the value that is asked for stays to the letter; a file of another shape is refused, and never
//! half understood.

use anyhow::{Result, bail};

const BELIEVED: &str = "certificate-authority-data";
const SERVER: &str = "server";
const CERTIFICATE: &str = "client-certificate";
/// File name of the certificate that a kubelet renews by itself.
pub const CURRENT: &str = "kubelet-client-current.pem";

/// The one value of this key, and in which line it stands.
fn find<'a>(conf: &'a str, key: &str) -> Result<(usize, &'a str)> {
    let value = |line: &'a str| {
        let line = line.trim_start();
        let line = line.strip_prefix("- ").unwrap_or(line);
        Some(line.strip_prefix(key)?.strip_prefix(':')?.trim())
    };
    let lines = conf.lines().enumerate();
    let found: Vec<_> = lines
        .filter_map(|(at, line)| Some((at, value(line)?)))
        .collect();
    match found.as_slice() {
        [(at, value)] if !value.is_empty() => Ok((*at, value)),
        [] => bail!("it has no {key}, so it is not as kubeadm writes it"),
        _ => bail!(
            "it has several values of {key}, or an empty one, so it is not as kubeadm writes it"
        ),
    }
}

/// The kubeconfig with another bundle (base64) of whom to believe.
///
/// # Errors
/// When it is not one whose certificate the kubelet renews by itself.
pub fn believing(conf: &str, bundle: &str) -> Result<String> {
    let (_, certificate) = find(conf, CERTIFICATE)?;
    if !unquoted(certificate).ends_with(CURRENT) {
        bail!("its certificate is {certificate}, which the kubelet does not renew by itself");
    }
    let (at, before) = find(conf, BELIEVED)?;
    let lines = conf.split_inclusive('\n').enumerate();
    let changed = lines.map(|(number, line)| match number == at {
        true => line.replacen(before, bundle, 1),
        false => line.to_owned(),
    });
    Ok(changed.collect())
}

/// A kubeconfig for the first certificate, by this token, of the server that `conf` has.
///
/// # Errors
/// When it has none.
pub fn bootstrap(conf: &str, bundle: &str, token: &str) -> Result<String> {
    let (_, server) = find(conf, SERVER)?;
    let server = serde_json::Value::from(unquoted(server));
    Ok(format!(
        "apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    certificate-authority-data: {bundle}
    server: {server}
users:
- name: tls-bootstrap-token-user
  user:
    token: {token}
contexts:
- name: tls-bootstrap-token-user@kubernetes
  context:
    cluster: kubernetes
    user: tls-bootstrap-token-user
current-context: tls-bootstrap-token-user@kubernetes
"
    ))
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a kubelet of 1.35 writes it after `kubeadm join`.
    pub(crate) const CONF: &str = "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: b2xk
    server: https://192.0.2.7:6443
  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
";

    #[test]
    fn bundle_alone_changes() {
        let after = believing(CONF, "bmV3").unwrap();
        assert_eq!(after, CONF.replace("b2xk", "bmV3"));
        assert_eq!(believing(&after, "bmV3").unwrap(), after);
        let first = CONF.replace("- cluster:\n    cert", "- name: x\n  cluster:\n    cert");
        assert!(
            believing(&first, "bmV3")
                .unwrap()
                .contains("certificate-authority-data: bmV3\n")
        );
    }

    #[test]
    fn what_kubeadm_did_not_write_so_is_refused() {
        let data = CONF.replace(
            "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem",
            "client-certificate-data: YQ==",
        );
        let elsewhere = CONF.replace(
            "certificate-authority-data: b2xk",
            "certificate-authority: /etc/ca.crt",
        );
        let own = CONF.replace("kubelet-client-current.pem", "own.pem");
        let two = format!("{CONF}- cluster:\n    certificate-authority-data: YQ==\n");
        for other in [&*data, &*elsewhere, &*own, &*two, "", "{}"] {
            assert!(believing(other, "bmV3").is_err(), "{other}");
        }
    }

    #[test]
    fn bootstrap_has_the_server_that_the_kubelet_used() {
        let made = bootstrap(CONF, "bmV3", "abcdef.0123456789abcdef").unwrap();
        assert!(
            made.contains("    server: \"https://192.0.2.7:6443\"\n"),
            "{made}"
        );
        assert!(
            made.contains("    token: abcdef.0123456789abcdef\n"),
            "{made}"
        );
        assert!(
            made.contains("    certificate-authority-data: bmV3\n"),
            "{made}"
        );
        let quoted = CONF.replace("https://192.0.2.7:6443", "\"https://[2001:db8::1]:6443\"");
        let made = bootstrap(&quoted, "bmV3", "a.b").unwrap();
        assert!(
            made.contains("server: \"https://[2001:db8::1]:6443\"\n"),
            "{made}"
        );
    }
}
