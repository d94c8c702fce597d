//! Folders of the cache that are built once: trees of Debian, disks of workers.
//!
//! Invariant: a folder is complete or absent, and its name carries a hash of all that decides its
//! content. It is built under a lock, beside its place, so two checkouts build it once.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::{
    cache::cache_dir,
    progress::{Progress, Step},
};

/// A hash of parts whose order counts. Lengths keep two parts from being mistaken for one.
#[derive(Default)]
pub(crate) struct Key(Sha256);

impl Key {
    pub(crate) fn add(&mut self, part: impl AsRef<[u8]>) -> &mut Self {
        let part = part.as_ref();
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// Twelve characters.
    pub(crate) fn text(&self) -> String {
        hex::encode(&self.0.clone().finalize()[..6])
    }
}

/// One folder `<cache>/<kind>/<name>-<key>` and how to say that it is being built.
pub(crate) struct Folder<'a> {
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) key: String,
    /// What is done, as in `building the worker image`.
    pub(crate) doing: String,
    /// What to expect, as in `about 2 min`.
    pub(crate) expect: &'a str,
}

impl Folder<'_> {
    /// Where it is, or would be.
    pub(crate) fn place(&self) -> Result<PathBuf> {
        let name = format!("{}-{}", self.name, self.key);
        Ok(cache_dir()?.join(self.kind).join(name))
    }

    /// Builds it unless it is there. `build` gets an empty folder, which takes its place only when
    /// `build` succeeded.
    pub(crate) fn ensure(
        &self,
        progress: &Progress,
        build: impl FnOnce(&std::path::Path, &mut Step) -> Result<()>,
    ) -> Result<PathBuf> {
        let place = self.place()?;
        if place.is_dir() {
            return Ok(place);
        }
        let folder = cache_dir()?.join(self.kind);
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let _lock = self.lock(&folder.join(format!(".{}.lock", self.name)), progress)?;
        if place.is_dir() {
            return Ok(place); // somebody else built it while we waited
        }
        // Ours by the lock: whatever is there is left from a build that was interrupted.
        let partial = folder.join(format!(".{}.partial", self.name));
        if partial.exists() {
            fs::remove_dir_all(&partial)
                .with_context(|| format!("{} cannot be removed", partial.display()))?;
        }
        fs::create_dir(&partial)?;
        let mut step = progress.step_that_takes(&*self.doing, self.expect);
        let built = build(&partial, &mut step);
        step.finish(built)
            .with_context(|| format!("{}: failed", self.doing))?;
        fs::rename(&partial, &place)
            .with_context(|| format!("{} cannot be put in place", place.display()))?;
        Ok(place)
    }

    /// Held until dropped, also across processes.
    fn lock(&self, path: &std::path::Path, progress: &Progress) -> Result<File> {
        let file =
            File::create(path).with_context(|| format!("{} cannot be made", path.display()))?;
        if file.try_lock().is_err() {
            let step = progress.step(format!("waiting for another process: {}", self.doing));
            step.finish(file.lock())
                .with_context(|| format!("{} cannot be locked", path.display()))?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn parts_of_a_key_do_not_run_into_each_other() {
        let of = |parts: &[&str]| {
            let mut key = Key::default();
            for part in parts {
                key.add(part);
            }
            key.text()
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
        assert_eq!(of(&[]).len(), 12);
    }
}
