/** Which of a document's extractions is shown. */

import type { ExtractionSummary } from '../api/types';
import { atMoment } from '../shared/format';

interface Props {
  all: readonly ExtractionSummary[];
  shown: string;
  current: string | null;
  onChoose: (extractionId: string) => void;
}

const WORDS: Record<ExtractionSummary['status'], string> = { completed: 'completed', in_progress: 'not finished', failed: 'failed or cancelled' };

export function ExtractionPicker({ all, shown, current, onChoose }: Props) {
  if (all.length < 2) return null;
  return (
    <select aria-label="Extraction" value={shown} onChange={(event) => onChoose(event.target.value)}>
      {all.map((one) => (
        <option key={one.id} value={one.id}>
          {atMoment(one.created_at)}, {WORDS[one.status]}
          {one.id === current ? ' (current)' : ''}
        </option>
      ))}
    </select>
  );
}
