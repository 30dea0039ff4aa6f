/** Says that changes wait for the connection. */

import { WifiOff } from 'lucide-react';
import { t } from '../shared/i18n';
import { useUnsent } from '../shared/unsent';

export function UnsentNotice() {
  const count = useUnsent();
  return (
    <div role="status" className="fixed bottom-3 left-1/2 z-60 -translate-x-1/2 max-sm:bottom-20">
      {count > 0 && (
        <p className="flex items-center gap-2 rounded-lg border border-need-line bg-need-bg px-3 py-2 text-need shadow-lg">
          <WifiOff size={15} className="shrink-0" aria-hidden="true" />
          {t('shell.unsent', { count })}
        </p>
      )}
    </div>
  );
}
