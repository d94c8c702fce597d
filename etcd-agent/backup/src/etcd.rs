//! What a backup and a restore ask of an etcd.
//!
//! Invariant: of one [`Etcd`] everything is asked of one member, so that a revision that it told is in
//! the snapshot that it gives afterwards.

use std::time::Duration;

use proto::etcd::kv_client::KvClient;
use proto::etcd::lease_client::LeaseClient;
use proto::etcd::maintenance_client::MaintenanceClient;
use proto::etcd::watch_client::WatchClient;
use proto::etcd::watch_request::RequestUnion;
use proto::etcd::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseTimeToLiveRequest,
    RangeRequest, RangeResponse, SnapshotRequest, SnapshotResponse, StatusRequest, TxnRequest,
    WatchCreateRequest, WatchRequest, WatchResponse,
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Status, Streaming};

/// How long a question may take that is answered from memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of one message. etcd's own most of a request, and so of a fragment of a watch, is 1.5 MiB.
const MOST_MESSAGE: usize = 8 * 1024 * 1024;
/// What the other side may send before it was read: bounds what waits in memory.
const WINDOW: u32 = 512 * 1024;

/// An etcd that did not answer as it should.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No address of an etcd, or files that are no certificates.
    #[error("etcd at {url} cannot be asked: {problem}")]
    Address {
        /// The address.
        url: String,
        /// Why.
        problem: String,
    },
    /// It cannot be reached, or refused.
    #[error("etcd did not answer {question}: {status}")]
    Ask {
        /// What was asked.
        question: &'static str,
        /// What it said.
        status: Box<Status>,
    },
    /// It answered something that it cannot mean.
    #[error("etcd answered {question} with nonsense: {problem}")]
    Nonsense {
        /// What was asked.
        question: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// What a member says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberStatus {
    /// Identifier of its cluster.
    pub cluster: u64,
    /// The store's revision there.
    pub revision: u64,
    /// Its version.
    pub version: String,
}

/// How an etcd is reached that wants certificates; PEM.
#[derive(Clone)]
pub struct Tls {
    /// Authorities of its certificate.
    pub ca: Vec<u8>,
    /// Our certificate.
    pub certificate: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

/// A member.
#[derive(Clone, Debug)]
pub struct Etcd {
    channel: Channel,
}

impl Etcd {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(url: &str, tls: Option<&Tls>) -> Result<Self, Error> {
        let bad = |error: tonic::transport::Error| Error::Address {
            url: url.to_owned(),
            problem: error.to_string(),
        };
        let mut endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(bad)?
            .connect_timeout(PATIENCE)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            // A member that went without a word is found.
            .http2_keep_alive_interval(PATIENCE)
            .keep_alive_timeout(PATIENCE);
        if let Some(tls) = tls {
            let config = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(&tls.ca))
                .identity(Identity::from_pem(&tls.certificate, &tls.key));
            endpoint = endpoint.tls_config(config).map_err(bad)?;
        }
        Ok(Self {
            channel: endpoint.connect_lazy(),
        })
    }

    /// Its cluster, version and revision.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn status(&self) -> Result<MemberStatus, Error> {
        const QUESTION: &str = "for its status";
        let mut client = MaintenanceClient::new(self.channel.clone());
        let status = within(QUESTION, client.status(StatusRequest {})).await?;
        let header = status.header.unwrap_or_default();
        let revision = u64::try_from(header.revision).unwrap_or_default();
        if header.cluster_id == 0 || revision == 0 {
            return Err(Error::Nonsense {
                question: QUESTION,
                problem: "no cluster or no revision".to_owned(),
            });
        }
        Ok(MemberStatus {
            cluster: header.cluster_id,
            revision,
            version: status.version,
        })
    }

    /// Begins a snapshot.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn snapshot(&self) -> Result<Streaming<SnapshotResponse>, Error> {
        let mut client =
            MaintenanceClient::new(self.channel.clone()).max_decoding_message_size(MOST_MESSAGE);
        within("for a snapshot", client.snapshot(SnapshotRequest {})).await
    }

    /// Begins to watch all keys from a revision on.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn watch(&self, from: u64) -> Result<Streaming<WatchResponse>, Error> {
        let everything = WatchCreateRequest {
            key: vec![0],
            range_end: vec![0],
            start_revision: from.cast_signed(),
            fragment: true,
        };
        let request = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(everything)),
        };
        // The stream of requests stays open, or etcd ends the watch.
        let requests = futures::stream::once(std::future::ready(request));
        let requests = futures::StreamExt::chain(requests, futures::stream::pending());
        let mut client =
            WatchClient::new(self.channel.clone()).max_decoding_message_size(MOST_MESSAGE);
        within("to watch it", client.watch(requests)).await
    }

    /// Seconds that a lease was granted for; None when it is gone.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn granted(&self, lease: i64) -> Result<Option<i64>, Error> {
        let mut client = LeaseClient::new(self.channel.clone());
        let request = LeaseTimeToLiveRequest { id: lease };
        let answer = within("for a lease", client.lease_time_to_live(request)).await?;
        Ok((answer.ttl > 0).then_some(answer.granted_ttl))
    }

    /// All leases.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn leases(&self) -> Result<Vec<i64>, Error> {
        let mut client = LeaseClient::new(self.channel.clone());
        let answer = within("for its leases", client.lease_leases(LeaseLeasesRequest {})).await?;
        Ok(answer.leases.into_iter().map(|lease| lease.id).collect())
    }

    /// Makes a lease of this identifier; one that is there stays.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn grant(&self, lease: i64, ttl_seconds: i64) -> Result<(), Error> {
        let mut client = LeaseClient::new(self.channel.clone());
        let request = LeaseGrantRequest {
            id: lease,
            ttl: ttl_seconds,
        };
        match within("to grant a lease", client.lease_grant(request)).await {
            Err(Error::Ask { status, .. }) if status.message().contains("already exists") => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Renews leases.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn renew(&self, leases: Vec<i64>) -> Result<(), Error> {
        const QUESTION: &str = "to renew leases";
        let mut left = leases.len();
        let requests = leases.into_iter().map(|id| LeaseKeepAliveRequest { id });
        let requests = futures::stream::iter(requests);
        let mut client = LeaseClient::new(self.channel.clone());
        let mut answers = within(QUESTION, client.lease_keep_alive(requests)).await?;
        while left > 0 {
            match within_message(QUESTION, answers.message()).await? {
                Some(_) => left -= 1,
                None => break,
            }
        }
        Ok(())
    }

    /// Carries a transaction out; the revision after it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn transact(&self, request: TxnRequest) -> Result<u64, Error> {
        let mut client = KvClient::new(self.channel.clone());
        let answer = within("for a transaction", client.txn(request)).await?;
        let revision = answer.header.unwrap_or_default().revision;
        Ok(u64::try_from(revision).unwrap_or_default())
    }

    /// Reads keys.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        let mut client =
            KvClient::new(self.channel.clone()).max_decoding_message_size(MOST_MESSAGE);
        within("for keys", client.range(request)).await
    }
}

/// The next message of a stream that has to come soon.
///
/// # Errors
/// [`Error`].
pub async fn soon<T>(
    question: &'static str,
    stream: &mut Streaming<T>,
) -> Result<Option<T>, Error> {
    within_message(question, stream.message()).await
}

async fn within<T>(
    question: &'static str,
    answer: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Error> {
    within_message(question, async {
        answer.await.map(tonic::Response::into_inner)
    })
    .await
}

async fn within_message<T>(
    question: &'static str,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Error> {
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
    answer.map_err(|status| Error::Ask {
        question,
        status: Box::new(status),
    })
}
