/** Acts on many items, a few at a time. */

const AT_ONCE = 4;

export interface Outcome<T> {
  done: readonly T[];
  failed: readonly { item: T; error: unknown }[];
  /** Not started, since it was stopped. */
  left: readonly T[];
}

/** Call `act` for each item. `onProgress` gets the number that ended. Once `isStopped` returns true, no other is started. */
export async function actOnEach<T>(
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  onProgress: (ended: number) => void,
  isStopped = () => false,
): Promise<Outcome<T>> {
  const left = [...items];
  const done: T[] = [];
  const failed: { item: T; error: unknown }[] = [];
  const work = async () => {
    while (left.length > 0 && !isStopped()) {
      const item = left.shift()!;
      await act(item).then(
        () => done.push(item),
        (error: unknown) => failed.push({ item, error }),
      );
      onProgress(done.length + failed.length);
    }
  };
  onProgress(0);
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { done, failed, left };
}
