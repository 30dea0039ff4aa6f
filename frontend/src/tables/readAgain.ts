/** Reads a row again. */

import { startExtraction } from '../api/runs';
import type { ReadableAgain } from './cellStatus';

/** Start a run that reads a document again into the extraction of its row. `isOfMany`: other runs go first. */
export async function readAgain({ document_id, extraction_id }: ReadableAgain, isOfMany = false): Promise<string> {
  return startExtraction({ document_id, extraction_id, background: isOfMany }, crypto.randomUUID());
}
