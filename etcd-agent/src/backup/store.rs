//! The store that flags name.

use ::backup::store::directory::Directory;
use ::backup::store::{Created, Page, Store, StoreError};
use backup_s3::{Bucket, Settings};
use bytes::Bytes;

use super::failure::{FAILED, Failure, read};
use crate::args::reading::{PlaceArgs, StoreArgs};

/// A directory or a bucket.
pub(super) enum AnyStore {
    Directory(Directory),
    Bucket(Bucket),
}

impl AnyStore {
    pub(super) fn open(args: &StoreArgs) -> Result<Self, Failure> {
        let StoreArgs {
            place: PlaceArgs {
                directory,
                s3_bucket,
            },
            s3_endpoint,
            s3_region,
            s3_credentials,
            s3_ca,
            prefix: _,
        } = args;
        if let Some(directory) = directory {
            return Ok(Self::Directory(Directory::new(directory)));
        }
        let missing = |what: &str| Failure(FAILED, format!("{what} is missing"));
        let bucket = s3_bucket.clone().ok_or_else(|| missing("--s3-bucket"))?;
        let credentials = s3_credentials
            .as_ref()
            .ok_or_else(|| missing("--s3-credentials"))?;
        let word = |name: &str| {
            let text = String::from_utf8(read(&credentials.join(name))?);
            let text = text.map_err(|_| Failure(FAILED, format!("{name} is no text")))?;
            Ok::<_, Failure>(text.trim().to_owned())
        };
        let bucket = Bucket::new(&Settings {
            endpoint: s3_endpoint.clone(),
            bucket,
            region: s3_region.clone(),
            access_key_id: word("access-key-id")?,
            secret_access_key: word("secret-access-key")?,
            ca_bundle: s3_ca.as_deref().map(read).transpose()?,
        })?;
        Ok(Self::Bucket(bucket))
    }
}

impl Store for AnyStore {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        match self {
            Self::Directory(store) => store.create(key, bytes).await,
            Self::Bucket(store) => store.create(key, bytes).await,
        }
    }

    async fn get(&self, key: &str, most: usize) -> Result<Bytes, StoreError> {
        match self {
            Self::Directory(store) => store.get(key, most).await,
            Self::Bucket(store) => store.get(key, most).await,
        }
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<Page, StoreError> {
        match self {
            Self::Directory(store) => store.list(folder, after).await,
            Self::Bucket(store) => store.list(folder, after).await,
        }
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        match self {
            Self::Directory(store) => store.delete(key).await,
            Self::Bucket(store) => store.delete(key).await,
        }
    }
}

/// With a slash at its end, unless it is empty.
pub(super) fn prefix(text: &str) -> String {
    match text.trim_matches('/') {
        "" => String::new(),
        text => format!("{text}/"),
    }
}
