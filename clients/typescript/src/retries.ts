/** Sends a request again after a temporary failure, if a repetition is harmless. */

const MOST_RETRIES = 4;
const MOST_SECONDS = 30;
const TEMPORARY: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Return `send` with retries. Requests that change something are repeated only with an idempotency key, or if they set
 * a state. */
export function withRetries(send: typeof fetch): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const mayRepeat = ['GET', 'PUT', 'DELETE'].includes(request.method) || request.headers.has('Idempotency-Key');
    for (let attempt = 0; ; attempt += 1) {
      let seconds = 0.2 * 2 ** attempt;
      const isLast = !mayRepeat || attempt === MOST_RETRIES;
      try {
        const response = await send(isLast ? request : request.clone());
        if (isLast || !TEMPORARY.has(response.status)) return response;
        const wanted = Number(response.headers.get('Retry-After') ?? '');
        if (wanted > 0) seconds = wanted;
        void response.body?.cancel();
      } catch (error) {
        if (isLast || request.signal.aborted) throw error;
      }
      await pause(Math.min(seconds, MOST_SECONDS) * (1 + Math.random() / 4));
    }
  };
}

export function pause(seconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, seconds * 1000));
}
