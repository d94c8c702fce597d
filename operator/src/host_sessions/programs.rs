//! Archives of programs that are sent to machines: where they lie, and whether they are what the configuration says.
//!
//! Invariant: what has another digest than its entry is sent to nobody; a file is read for that once, and again when it is
//! another one.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use provider_static::programs::{Archive, Archives};
use sha2::{Digest as _, Sha256};
use tenant_cp::settings::StaticSettings;

/// Where the chart mounts its volume `hostPrograms`.
const FOLDER: &str = "/var/lib/covey/host-programs";

/// Which file it was: one that is written anew has another time or size.
type Version = (u64, Option<SystemTime>);

/// Digests of archives that were read.
#[derive(Debug, Default)]
pub struct Digests(Mutex<HashMap<PathBuf, (Version, String)>>);

/// What the configuration names.
#[must_use]
pub fn archives(settings: &StaticSettings) -> Archives {
    let all = settings.programs.iter().map(|one| Archive {
        version: one.version.as_str().to_owned(),
        architecture: one.architecture,
        path: Path::new(FOLDER).join(one.file.as_str()),
        sha256: one.sha256.as_str().to_owned(),
    });
    Archives(all.collect())
}

impl Digests {
    /// Whether it may be sent.
    ///
    /// # Errors
    /// Words: the file is not there, or has another digest.
    pub async fn check(self: &Arc<Self>, archive: &Archive) -> Result<(), String> {
        let (this, path) = (Arc::clone(self), archive.path.clone());
        let read = tokio::task::spawn_blocking(move || this.of(&path)).await;
        let read = read.map_err(io::Error::other).and_then(|found| found);
        let (path, version) = (archive.path.display(), &archive.version);
        match read {
            Ok(found) if found == archive.sha256 => Ok(()),
            Ok(found) => Err(format!(
                "{path}, the programs of {version}, has the digest {found}, and config.providers.static.programs says {}: \
                 put the file there that belongs to it, or write its digest there",
                archive.sha256
            )),
            Err(error) => Err(format!(
                "the programs of {version} cannot be read at {path}: {error}; the chart's volume hostPrograms has to have \
                 them"
            )),
        }
    }

    fn of(&self, path: &Path) -> io::Result<String> {
        let mut file = File::open(path)?;
        let known = file.metadata()?;
        let version = (known.len(), known.modified().ok());
        if let Some((was, digest)) = self.lock().get(path)
            && *was == version
        {
            return Ok(digest.clone());
        }
        let mut hash = Sha256::new();
        io::copy(&mut file, &mut hash)?;
        let digest = hex::encode(hash.finalize());
        let entry = (version, digest.clone());
        self.lock().insert(path.to_owned(), entry);
        Ok(digest)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, (Version, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::node_pool::Architecture;

    #[tokio::test]
    async fn what_is_another_file_than_its_entry_says_is_not_sent_and_the_right_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.tar.gz");
        let archive = Archive {
            version: "1.35.4".to_owned(),
            architecture: Architecture::Amd64,
            sha256: hex::encode(Sha256::digest(b"right")),
            path: path.clone(),
        };
        let digests = Arc::new(Digests::default());
        let missing = digests.check(&archive).await.unwrap_err();
        assert!(missing.contains("hostPrograms"), "{missing}");
        std::fs::write(&path, "wrong one").unwrap();
        let wrong = digests.check(&archive).await.unwrap_err();
        assert!(wrong.contains("write its digest there"), "{wrong}");
        std::fs::write(&path, "right").unwrap();
        assert_eq!(digests.check(&archive).await, Ok(()));
    }
}
