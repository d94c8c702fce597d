//! Reads meta-data and `#cloud-config` user data. Pure.
//!
//! Known are `hostname`, `fqdn`, `preserve_hostname`, `manage_etc_hosts`, `ssh_authorized_keys`,
//! `users` (of those only root's keys), `write_files`, `bootcmd` and `runcmd`, with the meaning that
//! cloud-init gives them. Invariant: what is not known is listed, never taken for something else.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use serde::{Deserialize, de::IgnoredAny};

/// What the disk says of the machine itself. JSON, as KubeVirt writes it, is YAML too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct MetaData {
    #[serde(default, rename = "instance-id")]
    pub(crate) instance_id: String,
    #[serde(default, rename = "local-hostname")]
    pub(crate) local_hostname: Option<String>,
}

pub(crate) fn meta_data(text: &str) -> Result<MetaData> {
    if text.trim().is_empty() {
        return Ok(MetaData::default());
    }
    Ok(serde_saphyr::from_str(text)?)
}

/// What a user asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct UserData {
    hostname: Option<String>,
    fqdn: Option<String>,
    #[serde(default)]
    preserve_hostname: bool,
    #[serde(default)]
    manage_etc_hosts: ManageHosts,
    #[serde(default)]
    ssh_authorized_keys: Vec<String>,
    #[serde(default)]
    users: Vec<User>,
    #[serde(default)]
    pub(crate) write_files: Vec<FileToWrite>,
    #[serde(default)]
    pub(crate) bootcmd: Vec<CommandLine>,
    #[serde(default)]
    pub(crate) runcmd: Vec<CommandLine>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredValue>,
    #[serde(skip)]
    pub(crate) unknown: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct IgnoredValue;

impl<'de> Deserialize<'de> for IgnoredValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// `true`, `false`, or the text `localhost` or `template`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum ManageHosts {
    Flag(bool),
    Text(String),
}

impl Default for ManageHosts {
    fn default() -> Self {
        Self::Flag(false)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum User {
    Named(String),
    Described {
        name: Option<String>,
        #[serde(default)]
        ssh_authorized_keys: Vec<String>,
    },
}

/// One entry of `runcmd`: a line of shell, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum CommandLine {
    Shell(String),
    Arguments(Vec<Scalar>),
}

/// An argument that looks like a number or a flag in YAML is a text all the same.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Flag(bool),
    Number(i64),
    Text(String),
}

impl Scalar {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// One entry of `write_files`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct FileToWrite {
    pub(crate) path: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    permissions: Option<Mode>,
    #[serde(default)]
    pub(crate) append: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Mode {
    /// What YAML had taken for a number already: `420` is 0644.
    Bits(u32),
    Octal(String),
}

impl UserData {
    /// Reads user data; nothing at all asks for nothing.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = text.trim_start();
        if text.is_empty() {
            return Ok(Self::default());
        }
        let first = text.lines().next().unwrap_or_default().trim_end();
        if first != "#cloud-config" {
            bail!(
                "it begins with {first:?}: this image reads #cloud-config only; take an image with \
                 cloud-init for scripts and multi-part data"
            );
        }
        let body = text.strip_prefix(first).unwrap_or_default();
        if body.trim().is_empty() {
            return Ok(Self::default());
        }
        // cloud-init reads YAML 1.1, where 0640 is an octal number.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let mut data: Self =
            serde_saphyr::from_str_with_options(body, options).context("it is not valid YAML")?;
        data.unknown = data.others.keys().cloned().collect();
        data.unknown.extend(
            data.users
                .iter()
                .filter_map(User::unknown)
                .map(|name| format!("user {name}")),
        );
        Ok(data)
    }

    /// The machine's name: the user's word before the disk's; without domain.
    pub(crate) fn hostname(&self, meta: &MetaData) -> Option<String> {
        if self.preserve_hostname {
            return None;
        }
        let name = self
            .hostname
            .as_ref()
            .or(self.fqdn.as_ref())
            .or(meta.local_hostname.as_ref())?;
        let name = name.split('.').next().unwrap_or_default();
        (!name.is_empty()).then(|| name.to_owned())
    }

    pub(crate) fn manages_hosts(&self) -> bool {
        match &self.manage_etc_hosts {
            ManageHosts::Flag(flag) => *flag,
            ManageHosts::Text(text) => matches!(text.as_str(), "localhost" | "template" | "true"),
        }
    }

    /// Keys of root, who is this image's default user.
    pub(crate) fn keys(&self) -> Vec<String> {
        let of_users = self.users.iter().filter_map(User::keys).flatten();
        self.ssh_authorized_keys
            .iter()
            .chain(of_users)
            .cloned()
            .collect()
    }
}

impl User {
    fn keys(&self) -> Option<&Vec<String>> {
        match self {
            Self::Described {
                name,
                ssh_authorized_keys,
            } if name.as_deref().unwrap_or("root") == "root" => Some(ssh_authorized_keys),
            _ => None,
        }
    }

    /// Whom the image does not have.
    fn unknown(&self) -> Option<&str> {
        let name = match self {
            Self::Named(name) => name,
            Self::Described { name, .. } => name.as_deref()?,
        };
        (!matches!(name, "default" | "root")).then_some(name)
    }
}

impl FileToWrite {
    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        match self.encoding.as_deref().unwrap_or("text/plain") {
            "text/plain" | "" => Ok(self.content.clone().into_bytes()),
            "b64" | "base64" => {
                let packed: String = self.content.split_whitespace().collect();
                base64::engine::general_purpose::STANDARD
                    .decode(packed)
                    .context("its content is not base64")
            }
            other => bail!("encoding {other:?} is not known here: use text/plain or base64"),
        }
    }

    /// 0644 unless said.
    pub(crate) fn mode(&self) -> Result<u32> {
        match &self.permissions {
            None => Ok(0o644),
            Some(Mode::Bits(bits)) => Ok(*bits),
            Some(Mode::Octal(text)) => u32::from_str_radix(text.trim_start_matches("0o"), 8)
                .with_context(|| format!("permissions {text:?} are not an octal number")),
        }
    }

    /// Whether it belongs to root, the only one whom this image knows by name.
    pub(crate) fn is_roots(&self) -> bool {
        let owner = self.owner.as_deref().unwrap_or("root:root");
        owner.split(':').all(|name| matches!(name, "root" | "0"))
    }
}

#[cfg(test)]
mod tests;
