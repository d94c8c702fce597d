//! Learns the addresses of this node's pods from the CNI library's result files, which are there
//! before the pod's first container starts; its status says so only about a second later.
//!
//! Invariant: the map holds what the files in the directory say; an unreadable file says nothing.
//! Format: `cniCacheV1` of containernetworking/cni `libcni/api.go`, one file per attachment in
//! `/var/lib/cni/results`, written after all plugins succeeded and removed with the sandbox.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    mem::MaybeUninit,
    net::IpAddr,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context;
use ipnet::IpNet;
use rustix::fs::inotify;
use serde::Deserialize;
use tokio::sync::watch;

/// Addresses of pods by the pods' UIDs.
pub type Addresses = BTreeMap<String, BTreeSet<IpAddr>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cached {
    kind: String,
    #[serde(default)]
    cni_args: Vec<(String, String)>,
    #[serde(default)]
    result: Outcome,
}

#[derive(Default, Deserialize)]
struct Outcome {
    #[serde(default)]
    ips: Vec<Assigned>,
}

#[derive(Deserialize)]
struct Assigned {
    address: String,
}

/// Reads one result file: the pod's UID and the addresses it was given. The loopback attachment,
/// which every pod has too, gives none.
pub fn parse(text: &[u8]) -> Option<(String, BTreeSet<IpAddr>)> {
    let cached: Cached = serde_json::from_slice(text).ok()?;
    let (_, uid) = cached
        .cni_args
        .into_iter()
        .find(|(name, _)| name == "K8S_POD_UID")?;
    let addresses: BTreeSet<IpAddr> = cached
        .result
        .ips
        .iter()
        .filter_map(|assigned| assigned.address.parse::<IpNet>().ok())
        .map(|network| network.addr())
        .filter(|address| !address.is_loopback())
        .collect();
    (cached.kind == "cniCacheV1" && !addresses.is_empty()).then_some((uid, addresses))
}

/// Follows the directory, which is made if need be, from a thread of its own until the process
/// ends. The first value already holds everything that was there.
///
/// # Errors
/// When the directory cannot be made or watched.
pub fn follow(directory: &Path) -> anyhow::Result<watch::Receiver<Addresses>> {
    fs::create_dir_all(directory).with_context(|| {
        format!(
            "cannot make the CNI results directory {}",
            directory.display()
        )
    })?;
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).context("cannot use inotify")?;
    let interest = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::MOVED_FROM
        | inotify::WatchFlags::DELETE;
    inotify::add_watch(&events, directory, interest)
        .with_context(|| format!("cannot watch {}", directory.display()))?;
    let mut files = Files {
        directory: directory.to_owned(),
        known: BTreeMap::new(),
    };
    files.rescan();
    let (sender, receiver) = watch::channel(files.addresses());
    thread::Builder::new()
        .name("cni-results".to_owned())
        .spawn(move || {
            let mut buffer = [MaybeUninit::uninit(); 8192];
            let mut reader = inotify::Reader::new(&events, &mut buffer);
            while !sender.is_closed() {
                match reader.next() {
                    // Without a name the event is about the queue or the directory as a whole.
                    Ok(event) => match event.file_name() {
                        Some(name) => {
                            files.refresh(OsString::from_vec(name.to_bytes().to_vec()));
                        }
                        None => files.rescan(),
                    },
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => {
                        tracing::warn!(%error, "no longer following the CNI results");
                        return;
                    }
                }
                let now = files.addresses();
                sender.send_if_modified(|before| {
                    let modified = *before != now;
                    *before = now;
                    modified
                });
            }
        })
        .context("cannot start the thread that follows the CNI results")?;
    Ok(receiver)
}

struct Files {
    directory: PathBuf,
    known: BTreeMap<OsString, (String, BTreeSet<IpAddr>)>,
}

impl Files {
    fn rescan(&mut self) {
        self.known.clear();
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            self.refresh(entry.file_name());
        }
    }

    fn refresh(&mut self, name: OsString) {
        match fs::read(self.directory.join(&name))
            .ok()
            .and_then(|text| parse(&text))
        {
            Some(attachment) => self.known.insert(name, attachment),
            None => self.known.remove(&name),
        };
    }

    fn addresses(&self) -> Addresses {
        let mut addresses = Addresses::new();
        for (uid, given) in self.known.values() {
            addresses.entry(uid.clone()).or_default().extend(given);
        }
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(kind: &str, address: &str) -> String {
        format!(
            r#"{{"kind":"{kind}","containerId":"c","config":"e30=","ifName":"eth0",
               "networkName":"lab","cniArgs":[["IgnoreUnknown","1"],["K8S_POD_NAMESPACE","a"],
               ["K8S_POD_UID","uid-1"]],"result":{{"cniVersion":"1.0.0","dns":{{}},
               "ips":[{{"address":"{address}","interface":1,"gateway":"10.9.0.1"}}]}}}}"#
        )
    }

    #[test]
    fn result_file_gives_the_pods_uid_and_address() {
        let parsed = parse(result("cniCacheV1", "10.9.0.7/24").as_bytes());
        let address: IpAddr = "10.9.0.7".parse().unwrap();
        assert_eq!(
            parsed,
            Some(("uid-1".to_owned(), BTreeSet::from([address])))
        );
    }

    #[test]
    fn loopback_other_kinds_and_half_written_files_give_nothing() {
        assert_eq!(parse(result("cniCacheV1", "127.0.0.1/8").as_bytes()), None);
        assert_eq!(parse(result("cniCacheV9", "10.9.0.7/24").as_bytes()), None);
        assert_eq!(
            parse(&result("cniCacheV1", "10.9.0.7/24").as_bytes()[..60]),
            None
        );
    }

    #[tokio::test]
    async fn directory_is_followed_from_before_the_first_file_to_after_the_last() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("results");
        let mut addresses = follow(&directory).unwrap();
        assert!(addresses.borrow().is_empty());
        let file = directory.join("lab-c-eth0");
        fs::write(&file, result("cniCacheV1", "10.9.0.7/24")).unwrap();
        addresses.changed().await.unwrap();
        assert!(addresses.borrow_and_update().contains_key("uid-1"));
        fs::remove_file(&file).unwrap();
        addresses.changed().await.unwrap();
        assert!(addresses.borrow().is_empty());
    }
}
