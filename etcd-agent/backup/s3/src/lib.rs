//! Objects in a bucket of any S3 endpoint.
//!
//! Invariant: every object is written by one PUT with `If-None-Match: *`, and none is so long that it
//! would need several. TLS and signatures are ring's.

mod cause;

use std::sync::Arc;
use std::time::Duration;

use backup::store::{Call, Cause, Created, Entry, Page, Store, StoreError};
use bytes::Bytes;
use futures::StreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, Error, ObjectStore as _, ObjectStoreExt as _,
    PutMode, PutOptions, RetryConfig,
};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections that are kept.
const IDLE: usize = 4;
/// Objects of one page, as S3 has it.
const PAGE: usize = 1000;

/// Where a bucket is, and who may use it.
#[derive(Clone)]
pub struct Settings {
    /// URL of the endpoint; None is Amazon's own for the region.
    pub endpoint: Option<String>,
    /// The bucket.
    pub bucket: String,
    /// Its region; endpoints of others mostly take any, `us-east-1` by custom.
    pub region: String,
    /// The access key's identifier.
    pub access_key_id: String,
    /// The access key.
    pub secret_access_key: String,
    /// Authorities of the endpoint's certificate, PEM; None takes those that Mozilla trusts, which are built in: our
    /// image has no others.
    pub ca_bundle: Option<Vec<u8>>,
}

/// A bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    store: Arc<AmazonS3>,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    /// A bundle without a certificate.
    #[error("the CA bundle has no certificate")]
    NoCertificate,
    /// Anything else.
    #[error("the bucket cannot be used with these settings: {0}")]
    Other(String),
}

impl Bucket {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// [`BadSettings`].
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        // Whoever was first chose ring too: there is no other.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let other = |error: Error| BadSettings::Other(error.to_string());
        let mut client = ClientOptions::new()
            .with_timeout(TIMEOUT)
            .with_connect_timeout(CONNECT)
            .with_pool_max_idle_per_host(IDLE)
            // A client that wants these cannot be built where there are none, and so not even for `http://`.
            .with_no_system_certificates(true);
        for certificate in authorities(settings.ca_bundle.as_deref())? {
            client = client.with_root_certificate(certificate);
        }
        let http = settings
            .endpoint
            .as_ref()
            .is_some_and(|url| url.starts_with("http://"));
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.access_key_id)
            .with_secret_access_key(&settings.secret_access_key)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_disable_bulk_delete(true)
            .with_client_options(client.with_allow_http(http))
            .with_allow_http(http)
            // Who asks has patience of its own.
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: 1,
                retry_timeout: TIMEOUT,
            });
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        Ok(Self {
            store: Arc::new(builder.build().map_err(other)?),
        })
    }
}

/// Whom an endpoint's certificate has to be signed by.
fn authorities(bundle: Option<&[u8]>) -> Result<Vec<Certificate>, BadSettings> {
    let other = |error: Error| BadSettings::Other(error.to_string());
    let Some(bundle) = bundle else {
        let public = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
        let parsed = public.map(|authority| Certificate::from_der(authority));
        return parsed.collect::<Result<_, _>>().map_err(other);
    };
    let certificates = Certificate::from_pem_bundle(bundle).map_err(other)?;
    match certificates.is_empty() {
        true => Err(BadSettings::NoCertificate),
        false => Ok(certificates),
    }
}

impl Store for Bucket {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        let options = PutOptions::from(PutMode::Create);
        let put = self
            .store
            .put_opts(&Path::from(key), bytes.into(), options)
            .await;
        match put {
            Ok(_) => Ok(Created::New),
            Err(Error::AlreadyExists { .. }) => Ok(Created::Exists),
            Err(error) => Err(failed(Call::Create, key, &error)),
        }
    }

    async fn get(&self, key: &str, most: usize) -> Result<Bytes, StoreError> {
        let error = |error: &Error| failed(Call::Get, key, error);
        let got = self
            .store
            .get(&Path::from(key))
            .await
            .map_err(|e| error(&e))?;
        let too_long = |bytes: u64| {
            let detail = format!("more than {bytes} bytes");
            StoreError::new(Call::Get, key, Cause::TooLong, &detail)
        };
        if got.meta.size > most as u64 {
            return Err(too_long(got.meta.size));
        }
        let mut bytes = Vec::new();
        let mut stream = got.into_stream();
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece.map_err(|e| error(&e))?);
            // It may send more than it said.
            if bytes.len() > most {
                return Err(too_long(most as u64));
            }
        }
        Ok(bytes.into())
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<Page, StoreError> {
        let prefix = Path::from(folder.trim_end_matches('/'));
        let prefix = (!folder.is_empty()).then_some(&prefix);
        let mut listed = match after {
            Some(after) => self.store.list_with_offset(prefix, &Path::from(after)),
            None => self.store.list(prefix),
        };
        let mut page = Page::default();
        while let Some(object) = listed.next().await {
            let object = object.map_err(|error| failed(Call::List, folder, &error))?;
            page.objects.push(Entry {
                key: object.location.to_string(),
                bytes: object.size,
            });
            if page.objects.len() == PAGE {
                page.more = true;
                break;
            }
        }
        // S3 lists in this order; others of its kind may not.
        page.objects.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(page)
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        match self.store.delete(&Path::from(key)).await {
            Err(Error::NotFound { .. }) => Ok(()),
            done => done.map_err(|error| failed(Call::Delete, key, &error)),
        }
    }
}

fn failed(call: Call, key: &str, error: &Error) -> StoreError {
    let said = chain(error);
    StoreError::new(call, key, cause::of(call, error, &said), &said)
}

/// All that an error says; what one repeats of its source is said once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        next = source.source();
    }
    said
}
