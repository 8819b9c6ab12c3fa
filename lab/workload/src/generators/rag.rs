//! Retrieval-augmented generation: the same documents, in a different order each time.
//!
//! A system prompt, a few documents out of many (Zipf), and a question. Documents are drawn without
//! repetition and appear in random order. Beyond the system prompt, two prompts share only
//! documents up to the first difference in order: a prefix cache hits on the first document and
//! seldom on the second. The figures do not come from published statistics.

use std::time::Duration;

use meridian_base::Rng;

use crate::lengths::{Lengths, Zipf};
use crate::spec::{GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Node, Program, ProgramKey, Role, Segment};

/// The generator of questions about documents.
pub(crate) static SPEC: GeneratorSpec = GeneratorSpec {
    name: "rag",
    summary: "Questions over popular documents in random order.",
    source: "Meridian; no published statistics",
    load: PublishedLoad::Any,
    params: &[
        knob("system_tokens", 500.0, (1.0, 1e6), "tokens of the system prompt"),
        knob("documents", 2000.0, (1.0, 1e6), "documents in all"),
        knob("zipf", 1.0, (0.0, 3.0), "exponent of their popularity"),
        knob("retrieved", 5.0, (0.0, 50.0), "documents in a prompt"),
        knob("document_tokens", 800.0, (1.0, 1e6), "mean tokens of a document"),
        knob("document_cv", 0.5, (0.0, 10.0), "its coefficient of variation"),
        knob("question_tokens", 40.0, (1.0, 1e6), "mean tokens of the question"),
        knob("reply_tokens", 150.0, (1.0, 1e6), "mean tokens of the reply"),
        knob("reply_cv", 0.5, (0.0, 10.0), "coefficient of variation of question and reply"),
    ],
    make: |params| Box::new(Rag::new(params)),
};

/// Random path within a program, and tags of the text that programs share.
const CHOICE: u64 = u64::MAX - 2;
const SYSTEM: u64 = 4 << 32;
const DOCUMENT: u64 = 5 << 32;

/// Draws of a duplicate document, after which the prompt stays shorter.
const MOST_DRAWS: usize = 1000;

struct Rag {
    system: u32,
    /// Tokens of each document, the same for all seeds.
    documents: Vec<u32>,
    popularity: Zipf,
    retrieved: usize,
    question: Lengths,
    reply: Lengths,
}

impl Rag {
    fn new(params: &GeneratorParams) -> Rag {
        const MOST: u32 = 1 << 20;
        let lengths = |mean, cv| Lengths::by_mean(params.number(mean), params.number(cv), MOST);
        let popularity = Zipf::new(params.count("documents") as usize, params.number("zipf"));
        let document = lengths("document_tokens", "document_cv");
        let mut rng = Rng::new(0x444F_4355_4D45_4E54);
        Rag {
            system: params.count("system_tokens"),
            documents: popularity.shares().map(|_| document.draw(&mut rng)).collect(),
            popularity,
            retrieved: params.count("retrieved") as usize,
            question: lengths("question_tokens", "reply_cv"),
            reply: lengths("reply_tokens", "reply_cv"),
        }
    }

    /// The documents of a prompt, in the order in which they are drawn.
    fn retrieve(&self, mut rng: Rng) -> Vec<usize> {
        let mut found = Vec::with_capacity(self.retrieved);
        for _ in 0..MOST_DRAWS {
            if found.len() == self.retrieved {
                break;
            }
            let document = self.popularity.draw(&mut rng);
            if !found.contains(&document) {
                found.push(document);
            }
        }
        // In drawing order the popular ones would come first, but a retriever's ranking does not
        // depend on how often a document is requested.
        for i in (1..found.len()).rev() {
            found.swap(i, rng.below(i + 1));
        }
        found
    }
}

impl Generator for Rag {
    fn program(&self, key: ProgramKey) -> Program {
        let shared = |role, tag, tokens: u32| Segment {
            role,
            id: key.shared(tag),
            bytes: tokens * BYTES_PER_TOKEN,
        };
        let mut adds = vec![shared(Role::System, SYSTEM, self.system)];
        adds.extend(self.retrieve(key.rng(CHOICE)).into_iter().map(|document| {
            shared(Role::User, DOCUMENT | document as u64, self.documents[document])
        }));
        let mut rng = key.rng(0);
        let (id, tokens) = (rng.next_u64(), self.question.draw(&mut rng));
        adds.push(Segment { role: Role::User, id, bytes: tokens * BYTES_PER_TOKEN });
        let max_tokens = self.reply.draw(&mut rng);
        let node =
            Node { parent: None, level: 0, adds, max_tokens, think: Duration::ZERO, reply: None };
        Program::new(key, vec![node])
    }

    fn mean_requests(&self) -> f64 {
        1.0
    }
}
