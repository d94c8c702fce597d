//! Certificates of the lab's own management cluster, P-256, made anew by every fresh `up`.
//!
//! Nothing to do with the tenants' PKI (crate `pki`): this is what a kubeadm would have written.
//! Invariant: keys are readable by their owner only.

use std::{fs, net::IpAddr, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::slot::Slot;

/// A certificate to issue: file name, common name, organisations, alternative names.
struct Wanted {
    file: &'static str,
    common_name: String,
    organisations: Vec<&'static str>,
    names: Vec<String>,
}

impl Wanted {
    fn client(file: &'static str, common_name: &str, organisations: &[&'static str]) -> Self {
        let organisations = organisations.to_vec();
        Self {
            file,
            common_name: common_name.to_owned(),
            organisations,
            names: Vec::new(),
        }
    }

    fn server(file: &'static str, common_name: &str, names: Vec<String>) -> Self {
        let common_name = common_name.to_owned();
        Self {
            file,
            common_name,
            organisations: Vec::new(),
            names,
        }
    }
}

/// Writes every certificate and key of the lab in `slot` into `folder`.
///
/// # Errors
/// When a key cannot be made or a file not written.
pub(crate) fn create(folder: &Path, slot: Slot, host: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let node = slot.host_address(0).to_string();
    let loopback = "127.0.0.1".to_owned();

    let ca = Authority::create(folder, "ca", "covey-lab")?;
    let mut api_names: Vec<String> = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        .map(str::to_owned)
        .to_vec();
    api_names.push("kubernetes.default.svc.cluster.local".to_owned());
    api_names.extend([
        host.to_owned(),
        "localhost".to_owned(),
        node.clone(),
        loopback.clone(),
    ]);
    api_names.push(slot.api_service_address().to_string());
    let admins = ["system:masters"];
    for wanted in [
        Wanted::server("apiserver", "kube-apiserver", api_names),
        Wanted::server("kubelet-server", host, vec![host.to_owned(), node.clone()]),
        Wanted::client(
            "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            &admins,
        ),
        Wanted::client("admin", "lab-admin", &admins),
        Wanted::client("lab-agent", "lab-agent", &admins),
        Wanted::client("controller-manager", "system:kube-controller-manager", &[]),
        Wanted::client("scheduler", "system:kube-scheduler", &[]),
        Wanted::client("proxy", "system:kube-proxy", &[]),
        Wanted::client("kubelet", &format!("system:node:{host}"), &["system:nodes"]),
    ] {
        ca.issue(folder, &wanted)?;
    }

    let front_proxy = Authority::create(folder, "front-proxy-ca", "covey-lab-front-proxy")?;
    front_proxy.issue(
        folder,
        &Wanted::client("front-proxy-client", "front-proxy-client", &[]),
    )?;

    let etcd = Authority::create(folder, "etcd-ca", "covey-lab-etcd")?;
    etcd.issue(
        folder,
        &Wanted::server("etcd", "etcd", vec![node, loopback]),
    )?;
    etcd.issue(
        folder,
        &Wanted::client("etcd-client", "kube-apiserver-etcd-client", &[]),
    )?;

    let accounts = key()?;
    fs::write(
        folder.join("service-accounts.pub"),
        accounts.public_key_pem(),
    )?;
    write_private(
        &folder.join("service-accounts.key"),
        &accounts.serialize_pem(),
    )
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn create(folder: &Path, file: &str, common_name: &str) -> Result<Self> {
        let mut params = params(common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = key()?;
        let certificate = params
            .self_signed(&key)
            .context("the lab's CA cannot be made")?;
        fs::write(folder.join(format!("{file}.crt")), certificate.pem())?;
        write_private(&folder.join(format!("{file}.key")), &key.serialize_pem())?;
        Ok(Self {
            issuer: Issuer::new(params, key),
        })
    }

    /// Server and client use both: an etcd server also dials its own peers.
    fn issue(&self, folder: &Path, wanted: &Wanted) -> Result<()> {
        let mut params = params(&wanted.common_name);
        for organisation in &wanted.organisations {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *organisation);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !wanted.names.is_empty() {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        for name in &wanted.names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        params.use_authority_key_identifier_extension = true;
        let key = key()?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .with_context(|| format!("{}: the lab cannot issue it", wanted.file))?;
        fs::write(
            folder.join(format!("{}.crt", wanted.file)),
            certificate.pem(),
        )?;
        write_private(
            &folder.join(format!("{}.key", wanted.file)),
            &key.serialize_pem(),
        )
    }
}

/// Valid from long ago to far away: a lab's machine may have any clock.
fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 1, 1);
    params
}

fn key() -> Result<KeyPair> {
    KeyPair::generate().context("no key can be made")
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(())
}
