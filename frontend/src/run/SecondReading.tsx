/** What a run's second reading showed, or why it is missing. Renders nothing for a run without one. */

import { Link } from '@tanstack/react-router';
import type { Run } from '../api/types';
import { codeText } from '../shared/codeText';
import { t } from '../shared/i18n';

function reasonText(code: string): string {
  return code === 'no_reading' || code === 'other_structure' || code === 'not_configured'
    ? t(`runs.secondReading.${code}`)
    : codeText('runErrors', code, code);
}

export function SecondReading({ of: found }: { of: Run['second_reading'] }) {
  if (!found) return null;
  const { code, run_id: runId } = found;
  return (
    <>
      {code === null ? (
        <span>
          {[
            t('runs.secondReading.agrees', { count: found.agrees }),
            t('runs.secondReading.differs', { count: found.differs }),
            ...(found.rows === 0 ? [] : [t('runs.secondReading.rows', { count: found.rows })]),
          ].join(', ')}
          {found.is_same_vendor !== false &&
            `. ${t(`runs.secondReading.${found.is_same_vendor ? 'sameVendor' : 'unknownVendor'}`)}`}
        </span>
      ) : (
        <span className="text-need">{t('runs.secondReading.missing', { reason: reasonText(code) })}</span>
      )}{' '}
      {runId !== null && (
        <Link to="/runs/$runId" params={{ runId }}>
          {t('runs.secondReading.open')}
        </Link>
      )}
    </>
  );
}
